# cohort_module(NAME <name> [DEPS <module>...] [LIBRARIES <target>...] [PUBLIC_LIBRARIES <target>...]
#               SOURCES <file>... [TESTS <file>...] [LONG_TESTS <file>...] [SLOW_TESTS <file>...]
#               [TEST_DEPS <module>...] [BENCHES <file>...])
#
# Declares the module in the current folder: the static library cohort_<name> (cohort::<name>), whose
# include root include/ is visible only to modules that name it, directly or through others, in DEPS.
#   TESTS       run everywhere, under the sanitizers too          (label fast)
#   LONG_TESTS  part of the default suite, without sanitizers     (label long)
#   SLOW_TESTS  run on request only                               (label slow)
#   BENCHES     one Google Benchmark binary a file
# Every target is compiled with -ffp-contract=off: contraction changes results bit for bit.

add_library(cohort_flags INTERFACE)
add_library(cohort::flags ALIAS cohort_flags)
set_target_properties(cohort_flags PROPERTIES EXPORT_NAME flags)
target_compile_options(cohort_flags INTERFACE -ffp-contract=off)
target_compile_features(cohort_flags INTERFACE cxx_std_20)

add_library(cohort_warnings INTERFACE)
if(COHORT_WARNINGS)
  target_compile_options(cohort_warnings INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor
                                                   -Woverloaded-virtual -Wimplicit-fallthrough)
endif()

# cohort_executable(<target> [<source>...]): the flags and warnings every program of ours has.
function(cohort_executable target)
  add_executable(${target} ${ARGN})
  target_link_libraries(${target} PRIVATE cohort_flags $<BUILD_INTERFACE:cohort_warnings>)
endfunction()

# cohort_test(<target> LABEL <label> SOURCES <file>... [LIBRARIES <target>...] [TIMEOUT <s>])
function(cohort_test target)
  cmake_parse_arguments(arg "" "LABEL;TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  cohort_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(
    ${target}
    DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT})
endfunction()

function(cohort_module)
  cmake_parse_arguments(
    arg "" "NAME"
    "DEPS;LIBRARIES;PUBLIC_LIBRARIES;SOURCES;TESTS;LONG_TESTS;SLOW_TESTS;TEST_DEPS;BENCHES" ${ARGN})
  set(library cohort_${arg_NAME})
  list(TRANSFORM arg_DEPS PREPEND cohort:: OUTPUT_VARIABLE deps)
  list(TRANSFORM arg_TEST_DEPS PREPEND cohort:: OUTPUT_VARIABLE test_deps)

  add_library(${library} STATIC ${arg_SOURCES})
  add_library(cohort::${arg_NAME} ALIAS ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${arg_NAME})
  set_property(GLOBAL APPEND PROPERTY COHORT_MODULES ${library})
  target_include_directories(
    ${library} PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
                      $<INSTALL_INTERFACE:include>)
  target_link_libraries(
    ${library}
    PUBLIC cohort_flags ${deps} ${arg_PUBLIC_LIBRARIES}
    PRIVATE ${arg_LIBRARIES} $<BUILD_INTERFACE:cohort_warnings>)

  if(COHORT_BUILD_TESTS)
    foreach(kind IN ITEMS TESTS LONG_TESTS SLOW_TESTS)
      if(arg_${kind})
        string(REGEX REPLACE "_?TESTS$" "" label ${kind})
        string(TOLOWER "${label}" label)
        set(suffix _${label}_test)
        if(NOT label)
          set(label fast)
          set(suffix _test)
        endif()
        set(timeout 120)
        if(label STREQUAL slow)
          set(timeout 3600)
        endif()
        cohort_test(${arg_NAME}${suffix} LABEL ${label} TIMEOUT ${timeout} SOURCES ${arg_${kind}}
                    LIBRARIES ${library} ${test_deps} ${arg_LIBRARIES})
      endif()
    endforeach()
  endif()
  if(COHORT_BUILD_BENCHES)
    foreach(source IN LISTS arg_BENCHES)
      get_filename_component(bench ${source} NAME_WE)
      cohort_executable(${bench} ${source})
      target_link_libraries(${bench} PRIVATE ${library} ${test_deps} ${arg_LIBRARIES}
                                             benchmark::benchmark_main)
    endforeach()
  endif()
endfunction()

if(COHORT_BUILD_TESTS)
  include(GoogleTest)
endif()
