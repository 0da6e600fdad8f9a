# test_products reads goldens, which are JSON beside safetensors.
target_link_libraries(test_products PRIVATE ew_format)
