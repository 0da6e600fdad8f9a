# test_memory makes allocations fail (tests/support/allocations.h).
if(TARGET test_memory)
  target_link_options(test_memory PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc)
endif()
