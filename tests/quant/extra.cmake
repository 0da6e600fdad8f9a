# test_quant_memory makes allocations fail.
if(TARGET test_quant_memory)
  target_link_options(test_quant_memory PRIVATE
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc)
endif()
