# tests/cli/test_*.sh and test_*.c: the command as a user meets it. They call "$EDGEWISE", which in a cross build is a
# script that starts the emulator. Scripts look at JSON by jq; what a shell cannot do well is a program.
set(command $<TARGET_FILE:edgewise>)
if(CMAKE_CROSSCOMPILING AND CMAKE_CROSSCOMPILING_EMULATOR)
  string(REPLACE ";" " " emulator "${CMAKE_CROSSCOMPILING_EMULATOR}")
  set(command ${CMAKE_BINARY_DIR}/edgewise-emulated)
  file(WRITE ${command} "#!/bin/sh\nexec ${emulator} ${CMAKE_BINARY_DIR}/edgewise \"$@\"\n")
  file(CHMOD ${command} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endif()

file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/test_*.sh ${CMAKE_CURRENT_LIST_DIR}/test_*.c)
foreach(source ${tests})
  get_filename_component(name ${source} NAME_WE)
  if(name MATCHES "^test_train" AND NOT TARGET ew_train)
    continue()
  endif()
  set(test ${EDGEWISE_TEST_PREFIX}cli/${name})
  if(source MATCHES "[.]c$")
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE ew_format ew_test_support)
    add_test(NAME ${test} COMMAND ${name})
  else()
    add_test(NAME ${test} COMMAND sh ${source})
  endif()
  set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600
    ENVIRONMENT "${environment};EDGEWISE=${command};EDGEWISE_VERSION=${PROJECT_VERSION}")
endforeach()

# Installs into a folder of its own and builds the example from there. Only where the result can run here and was not
# made to be linked by a program with the same sanitizer.
if(NOT CMAKE_CROSSCOMPILING AND NOT EDGEWISE_SANITIZE)
  set(test ${EDGEWISE_TEST_PREFIX}cli/install)
  add_test(NAME ${test} COMMAND sh ${CMAKE_CURRENT_LIST_DIR}/install.sh ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR}/examples/ask
    ${CMAKE_C_COMPILER})
  set_tests_properties(${test} PROPERTIES TIMEOUT 600 ENVIRONMENT "${environment}")
endif()
