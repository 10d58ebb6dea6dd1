#pragma once

#include <span>
#include <string>
#include <string_view>

namespace cohort {

/// The candidate closest to `word` by edit distance, two neighbours swapped being one edit, if the
/// distance is at most 2; else empty.
std::string_view closest(std::string_view word, std::span<const std::string> candidates);

/// ", did you mean 'x'?" for the closest candidate, or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

/// `text` with every byte that isn't printable ASCII written as \xNN, so that hostile input can be
/// shown in a message.
std::string printable(std::string_view text);

}  // namespace cohort
