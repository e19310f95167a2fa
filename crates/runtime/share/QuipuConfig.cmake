# find_package(Quipu): instruments chosen targets of a build with gcc or clang.
#
#   quipu_instrument(TARGET...)  compiles the sources of these targets with instrumentation and links the runtime
#   Quipu::header                the folder of quipu.h, for targets that are annotated but not instrumented

set(Quipu_RUNTIME "@RUNTIME@")
if(NOT EXISTS "${Quipu_RUNTIME}")
    set(Quipu_FOUND FALSE)
    set(Quipu_NOT_FOUND_MESSAGE
        "the runtime ${Quipu_RUNTIME} is gone: take the folder that `quipu cc --quipu-prefix` prints now")
    return()
endif()

if(NOT TARGET Quipu::header)
    add_library(Quipu::header INTERFACE IMPORTED)
    set_target_properties(Quipu::header PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "@PREFIX@/include")
endif()

function(quipu_instrument)
    foreach(target IN LISTS ARGN)
        if(NOT TARGET ${target})
            message(FATAL_ERROR "quipu_instrument: there is no target ${target}")
        endif()
        foreach(language C CXX)
            if(CMAKE_${language}_COMPILER_ID MATCHES "Clang")
                set(flags "@CLANG_FLAGS@")
            elseif(CMAKE_${language}_COMPILER_ID STREQUAL "GNU")
                set(flags "@GCC_FLAGS@")
                # gcc would instrument nothing that it puts together when it links.
                set_target_properties(${target} PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
            elseif(CMAKE_${language}_COMPILER_LOADED)
                message(FATAL_ERROR "quipu_instrument: gcc or clang is needed for ${language}")
            else()
                continue()
            endif()
            target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:${language}>:SHELL:-g ${flags}>")
        endforeach()
        target_include_directories(${target} PRIVATE "@PREFIX@/include")
        # Before all objects and libraries, because it stands before functions of the C library. What links such a library in the
        # same build gets the runtime, too.
        get_target_property(type ${target} TYPE)
        foreach(option "-Wl,--push-state,--no-as-needed,@RUNTIME@,--pop-state" "-Wl,@WRAPPED@" "-Wl,-rpath,@RUNTIME_FOLDER@")
            if(NOT type STREQUAL "STATIC_LIBRARY" AND NOT type STREQUAL "OBJECT_LIBRARY")
                set_property(TARGET ${target} APPEND PROPERTY LINK_OPTIONS "${option}")
            endif()
            set_property(TARGET ${target} APPEND PROPERTY INTERFACE_LINK_OPTIONS "$<BUILD_INTERFACE:${option}>")
        endforeach()
    endforeach()
endfunction()
