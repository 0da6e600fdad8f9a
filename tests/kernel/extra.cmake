# test_products reads goldens, which are JSON beside safetensors.
if(TARGET test_products)
  target_link_libraries(test_products PRIVATE ew_format)
endif()
