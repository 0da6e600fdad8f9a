# The kernel sets of the target's processor, each compiled for the instructions that it needs; select.c asks the machine
# before it calls one. Included by src/CMakeLists.txt after the room exists.
function(ew_kernel_set source)
  target_sources(ew_kernel PRIVATE ${CMAKE_SOURCE_DIR}/src/kernel/${source})
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/kernel/${source} PROPERTIES COMPILE_OPTIONS "${ARGN}")
endfunction()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  set(avx2 -mavx2 -mfma -mf16c)
  set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni)
  ew_kernel_set(x86/avx2.c ${avx2})
  ew_kernel_set(x86/avxvnni.c ${avx2} -mavxvnni)
  ew_kernel_set(x86/avx512vl.c ${avx512})
  ew_kernel_set(x86/avx512.c ${avx512} -mprefer-vector-width=512)
  ew_kernel_set(x86/amx.c ${avx512} -mprefer-vector-width=512 -mgfni -mamx-tile -mamx-int8 -mprfchw)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  ew_kernel_set(arm/neon.c -march=armv8.2-a+dotprod)
  ew_kernel_set(arm/neon_i8mm.c -march=armv8.2-a+dotprod+i8mm)
endif()

# Not installed, by hand: bench/bench_kernels.c, bench/bench_attention.c.
foreach(name bench_kernels bench_attention)
  add_executable(${name} EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/bench/${name}.c)
  target_link_libraries(${name} PRIVATE ew_kernel)
endforeach()
