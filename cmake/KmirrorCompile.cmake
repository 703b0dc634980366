# Warnings, sanitizers and the compiler cache, shared by every target.

# Asserts guard the data and stay on in every build type.
foreach(language C CXX)
  string(REPLACE "-DNDEBUG" "" CMAKE_${language}_FLAGS_RELWITHDEBINFO
                 "${CMAKE_${language}_FLAGS_RELWITHDEBINFO}")
endforeach()

find_program(KMIRROR_CCACHE ccache)
if(KMIRROR_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${KMIRROR_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${KMIRROR_CCACHE})
endif()

find_package(Threads REQUIRED)
add_library(kmirror_compile INTERFACE)
target_compile_options(kmirror_compile INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(kmirror_compile INTERFACE -Wthread-safety)
endif()
target_include_directories(kmirror_compile INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include
                                                     ${CMAKE_BINARY_DIR}/generated)
target_link_libraries(kmirror_compile INTERFACE Threads::Threads)
if(KMIRROR_SANITIZE)
  target_compile_options(kmirror_compile INTERFACE -fsanitize=${KMIRROR_SANITIZE}
                         -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(kmirror_compile INTERFACE -fsanitize=${KMIRROR_SANITIZE})
endif()

# Line coverage: only the product is instrumented, not the tests, so it costs little. The programs
# write build/PRESET/coverage/*.profraw, merged over processes; scripts/coverage reads them.
if(KMIRROR_COVERAGE)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "KMIRROR_COVERAGE needs clang")
  endif()
  # Where the counts go is linked in, because tests start programs with environments and working
  # folders of their own.
  add_library(kmirror_profile_file OBJECT ${CMAKE_SOURCE_DIR}/cmake/profile_file.cc)
  target_compile_definitions(kmirror_profile_file PRIVATE
                             KMIRROR_PROFILE_FILE="${CMAKE_BINARY_DIR}/coverage/%4m.profraw")
  target_link_libraries(kmirror_compile INTERFACE $<BUILD_INTERFACE:$<TARGET_OBJECTS:kmirror_profile_file>>)
  target_link_options(kmirror_compile INTERFACE -fprofile-instr-generate)
endif()
function(kmirror_count_lines target)
  if(KMIRROR_COVERAGE)
    # By file, because generated ones do not count.
    get_target_property(sources ${target} SOURCES)
    foreach(source ${sources})
      if(NOT source MATCHES "^${CMAKE_BINARY_DIR}/|^\\$<")
        set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -fprofile-instr-generate
                                                                      -fcoverage-mapping)
      endif()
    endforeach()
  endif()
endfunction()

# kmirror_folder(NAME target SOURCES ... LIBS ...): the static library of one folder.
function(kmirror_folder)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;LIBS;PRIVATE_LIBS" ${ARGN})
  if(ARG_SOURCES)
    add_library(${ARG_NAME} STATIC ${ARG_SOURCES})
    target_link_libraries(${ARG_NAME} PUBLIC kmirror_compile ${ARG_LIBS} PRIVATE ${ARG_PRIVATE_LIBS})
    if(CMAKE_CURRENT_SOURCE_DIR MATCHES "^${CMAKE_SOURCE_DIR}/(src|broker|tools)(/|$)")
      kmirror_count_lines(${ARG_NAME})
    endif()
  else()
    add_library(${ARG_NAME} INTERFACE)
    target_link_libraries(${ARG_NAME} INTERFACE kmirror_compile ${ARG_LIBS})
  endif()
endfunction()
