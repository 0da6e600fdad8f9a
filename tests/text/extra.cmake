# test_text_memory makes allocations fail.
if(TARGET test_text_memory)
  target_link_options(test_text_memory PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)
endif()
