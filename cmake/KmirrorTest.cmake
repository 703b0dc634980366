# kmirror_test(NAME name SOURCES ... LIBS ... [LABELS T0] [TIMEOUT seconds] [PROPERTIES ...])
include(GoogleTest)
function(kmirror_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SOURCES;LIBS;LABELS;PROPERTIES" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS T0)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  # Tiers that this build does not run can still be built by name.
  set(wanted ON)
  if(KMIRROR_TIERS)
    set(wanted OFF)
    foreach(label ${ARG_LABELS})
      if(label IN_LIST KMIRROR_TIERS)
        set(wanted ON)
      endif()
    endforeach()
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_compile_definitions(${ARG_NAME} PRIVATE KMIRROR_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                                 KMIRROR_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_link_libraries(${ARG_NAME} PRIVATE kmirror_compile ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  if(NOT wanted)
    set_target_properties(${ARG_NAME} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  # The prefix keeps names apart when two programs test parts of one subject.
  gtest_discover_tests(${ARG_NAME} TEST_PREFIX ${ARG_NAME}/ DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} ${ARG_PROPERTIES})
endfunction()

# kmirror_fuzz(NAME name SOURCES ... LIBS ... CORPUS folder): a LLVMFuzzerTestOneInput program.
# In the fuzz preset it is a libFuzzer binary; elsewhere a T0 test that runs each file of the corpus
# once, so that no found input ever comes back.
function(kmirror_fuzz)
  cmake_parse_arguments(ARG "" "NAME;CORPUS" "SOURCES;LIBS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PRIVATE kmirror_compile ${ARG_LIBS})
  if(KMIRROR_FUZZ)
    target_link_options(${ARG_NAME} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${ARG_NAME} PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/corpus_main.cc)
    add_test(NAME ${ARG_NAME}.corpus COMMAND ${ARG_NAME} ${ARG_CORPUS})
    set_tests_properties(${ARG_NAME}.corpus PROPERTIES LABELS T0 TIMEOUT 120)
  endif()
endfunction()

# kmirror_kafka_test(NAME name SOURCES ... [LIBS ...] [LABELS T3] [TIMEOUT seconds]): a test against
# the real Kafka that all tests of one ctest run share (tests/support/kafka_fixture.h).
function(kmirror_kafka_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SOURCES;LIBS;LABELS;PROPERTIES" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS T3)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT TARGET kmirror_test_kafka)
    return()
  endif()
  kmirror_test(NAME ${ARG_NAME} SOURCES ${ARG_SOURCES} LIBS ${ARG_LIBS} kmirror_test_kafka
               LABELS ${ARG_LABELS} TIMEOUT ${ARG_TIMEOUT}
               PROPERTIES FIXTURES_REQUIRED RealKafka ${ARG_PROPERTIES})
endfunction()
