# test_format_memory makes allocations fail.
if(TARGET test_format_memory)
  target_link_options(test_format_memory PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)
endif()
