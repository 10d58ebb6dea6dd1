# The commands of the README; everything else is CMake's.
.PHONY: build test format clean

build:
	scripts/setup
	cmake --preset release
	cmake --build --preset release

# Every test but those labelled slow.
test: build
	ctest --test-dir build/release -LE slow --output-on-failure -j2

format:
	git ls-files '*.h' '*.cc' | xargs clang-format -i

clean:
	rm -rf build
