# These make allocations fail.
foreach(name test_format_memory test_adapter_memory)
  if(TARGET ${name})
    target_link_options(${name} PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)
  endif()
endforeach()
