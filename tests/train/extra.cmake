# Tests of the trainer in double precision: the goldens once more, and every gradient against differences.
foreach(pair double_goldens:test_goldens double_gradients:double_gradients)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 name)
  list(GET pair 1 source)
  if(NOT EXISTS ${CMAKE_CURRENT_LIST_DIR}/${source}.c)
    continue()
  endif()
  add_executable(${name} ${CMAKE_CURRENT_LIST_DIR}/${source}.c)
  target_link_libraries(${name} PRIVATE ew_train_double ew_test_support)
  add_test(NAME ${EDGEWISE_TEST_PREFIX}train/${name} COMMAND ${name})
  set_tests_properties(${EDGEWISE_TEST_PREFIX}train/${name} PROPERTIES ENVIRONMENT "${environment}" SKIP_RETURN_CODE 77)
endforeach()

# Heads are compared with what the run time asks them.
if(TARGET test_head_features)
  target_link_libraries(test_head_features PRIVATE ew_reason)
endif()
