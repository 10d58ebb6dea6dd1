#pragma once

#include <string>

#include "cohort/base/random.h"

namespace cohort::litmus {

/// The text of a small random program: a few lanes that load, store, add, swap, wait and assert
/// over a few words, some on one line. `memory` is the line that names the model; cached and dma
/// accesses and maintenance only if `has_caches`, orders only if `is_weak`.
inline std::string random_program(std::uint64_t seed, const std::string& memory, bool has_caches,
                                  bool is_weak) {
  Random random(seed, 77);
  const auto below = [&](std::uint64_t n) { return random.next_below(n); };
  const auto word = [&] { return std::string(1, static_cast<char>('a' + below(3))); };
  std::string text = "memory " + memory + "\n";
  for (const char* name : {"a", "b", "c"}) {
    text += std::string("word ") + name + " = 0" +
            (has_caches && below(4) != 0 ? " on line x" : "") + "\n";
  }
  const std::size_t lanes = 2 + below(2);
  for (std::size_t l = 0; l < lanes; ++l) {
    text += "lane l" + std::to_string(l) + " {\n";
    const std::size_t statements = 2 + below(has_caches ? 3 : 4);
    for (std::size_t s = 0; s < statements; ++s) {
      const std::string paths[] = {"", "cached ", "cached ", "dma "};
      const std::string path = has_caches ? paths[below(4)] : "";
      const std::string acquire = is_weak && below(2) == 0 ? "acquire " : "";
      const std::string release = is_weak && below(2) == 0 ? "release " : "";
      switch (below(has_caches ? 10 : 8)) {
        case 0:
        case 1:
          text +=
              "  store " + path + release + word() + " = " + std::to_string(1 + below(2)) + "\n";
          break;
        case 2:
          text += "  r = load " + path + acquire + word() + "\n";
          break;
        case 3:
          text +=
              "  r = add(" + word() + ", 1)" + (is_weak && below(2) == 0 ? " acq_rel" : "") + "\n";
          break;
        case 4:
          text += "  r = cas(" + word() + ", 0, 2)\n";
          break;
        case 5:
          text += "  wait " + acquire + "until " + word() + " >= " + std::to_string(1 + below(2)) +
                  "\n";
          break;
        case 6:
          text += "  if r == 1 { store " + word() + " = 3 } else { q = load " + word() + " }\n";
          break;
        case 7:
          text += below(2) == 0 ? "  fence\n"
                                : "  assert r + q < " + std::to_string(2 + below(3)) + "\n";
          break;
        case 8:
          text += (below(2) == 0 ? "  clean " : "  invalidate ") + word() + "\n";
          break;
        default:
          text += "  drain fence\n";
          break;
      }
    }
    if (below(3) == 0) text += "  assert r != " + std::to_string(below(3)) + "\n";
    text += "}\n";
  }
  return text;
}

}  // namespace cohort::litmus
