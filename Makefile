# The commands of the README; everything else is CMake's.
.PHONY: build demo test format clean

build:
	scripts/setup
	cmake --preset release
	cmake --build --preset release

# Runs DeepSeek-V4's MoE pre-processing, unfused and fused, on this CPU.
demo: build
	@echo
	@build/release/tools/cohort/cohort run pre-norm --variant slot --repeat 101
	@echo
	@echo "These times are this CPU's, where a launch is a function call. On an accelerator"
	@echo "each launch saved is worth microseconds: that gain is for a simulation of the"
	@echo "device to tell, not for this run."

# Every test but those labelled slow.
test: build
	ctest --test-dir build/release -LE slow --output-on-failure -j2

format:
	git ls-files '*.h' '*.cc' | xargs clang-format -i

clean:
	rm -rf build
