# What is installed: libedgewise, static and shared, made of all rooms but the command; its header; a pkg-config file.
get_property(rooms GLOBAL PROPERTY EDGEWISE_ROOMS)
set(objects "")
foreach(room ${rooms})
  list(APPEND objects $<TARGET_OBJECTS:${room}>)
endforeach()
set(outside PkgConfig::JANSSON PkgConfig::PCRE2 PkgConfig::UTF8PROC PkgConfig::GMP Threads::Threads m)

add_library(edgewise_static STATIC ${objects})
add_library(edgewise_shared SHARED ${objects})
set_target_properties(edgewise_static edgewise_shared PROPERTIES OUTPUT_NAME edgewise LINKER_LANGUAGE C)
set_target_properties(edgewise_shared PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_link_libraries(edgewise_static PUBLIC ${outside})
target_link_libraries(edgewise_shared PRIVATE ${outside})

# The file finds its prefix from where it lies, so that an installed tree may be moved.
file(RELATIVE_PATH EDGEWISE_PREFIX_FROM_PC /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix/)
configure_file(${CMAKE_CURRENT_LIST_DIR}/edgewise.pc.in ${CMAKE_BINARY_DIR}/edgewise.pc @ONLY)
install(TARGETS edgewise_static edgewise_shared
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${CMAKE_SOURCE_DIR}/include/edgewise.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_BINARY_DIR}/edgewise.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
