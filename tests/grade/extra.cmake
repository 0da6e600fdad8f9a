# MPFR judges the balls of real.h; nothing else needs it.
pkg_check_modules(MPFR REQUIRED IMPORTED_TARGET mpfr)
target_link_libraries(test_real PRIVATE PkgConfig::MPFR)

add_executable(bench_grade ${CMAKE_SOURCE_DIR}/bench/bench_grade.c)
target_link_libraries(bench_grade PRIVATE ew_grade PkgConfig::JANSSON)

if(TARGET test_hostile)
  target_link_libraries(test_hostile PRIVATE PkgConfig::GMP)
  target_link_options(test_hostile PRIVATE -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc)
endif()
target_link_libraries(test_grade PRIVATE PkgConfig::JANSSON)
