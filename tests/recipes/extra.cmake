# recipes/: what a recipe brings in C is tested like a room.
add_executable(test_tiny_problems ${CMAKE_CURRENT_LIST_DIR}/test_tiny_problems.c ${CMAKE_SOURCE_DIR}/recipes/tiny/problem.c
  ${CMAKE_SOURCE_DIR}/recipes/tiny/kinds.c ${CMAKE_SOURCE_DIR}/recipes/tiny/words.c)
target_include_directories(test_tiny_problems PRIVATE ${CMAKE_SOURCE_DIR}/recipes/tiny)
target_link_libraries(test_tiny_problems PRIVATE ew_base ew_test_support)
add_test(NAME ${EDGEWISE_TEST_PREFIX}recipes/test_tiny_problems COMMAND test_tiny_problems)
set_tests_properties(${EDGEWISE_TEST_PREFIX}recipes/test_tiny_problems PROPERTIES ENVIRONMENT "${environment}")
