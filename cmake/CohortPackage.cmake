# cohort::cohort, which is every library but the command line, and what `cmake --install` installs: the
# libraries with their headers, the CMake package `cohort`, and the program.

get_property(modules GLOBAL PROPERTY COHORT_MODULES)

add_library(cohort_cohort INTERFACE)
add_library(cohort::cohort ALIAS cohort_cohort)
set_target_properties(cohort_cohort PROPERTIES EXPORT_NAME cohort)
list(FILTER modules EXCLUDE REGEX "^cohort_(cli|main)$")
target_link_libraries(cohort_cohort INTERFACE ${modules})

if(COHORT_INSTALL)
  include(CMakePackageConfigHelpers)
  include(GNUInstallDirs)
  set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/cohort)

  get_property(modules GLOBAL PROPERTY COHORT_MODULES)
  install(TARGETS ${modules} cohort_cohort cohort_flags EXPORT cohort)
  foreach(module IN LISTS modules)
    get_target_property(source_folder ${module} SOURCE_DIR)
    get_target_property(binary_folder ${module} BINARY_DIR)
    foreach(folder IN LISTS source_folder binary_folder)
      if(EXISTS ${folder}/include)
        install(DIRECTORY ${folder}/include/ TYPE INCLUDE)
      endif()
    endforeach()
  endforeach()

  install(
    EXPORT cohort
    NAMESPACE cohort::
    FILE cohort-targets.cmake
    DESTINATION ${package_folder})
  configure_package_config_file(cmake/cohort-config.cmake.in cohort-config.cmake
                                INSTALL_DESTINATION ${package_folder})
  # Before 1.0 a minor version may change anything.
  write_basic_package_version_file(cohort-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cohort-config.cmake
                ${CMAKE_CURRENT_BINARY_DIR}/cohort-config-version.cmake
          DESTINATION ${package_folder})
  if(TARGET cohort)
    install(TARGETS cohort)
  endif()
endif()
