// What is explored: small worlds, each with a few of the troubles, together all of them.
#pragma once

#include <vector>

#include "tests/model/rules.h"

namespace kmirror::model {

// `more` is added to every trouble that a scope has at all.
std::vector<Scope> Scopes(int more = 0);
// The scope of that name. REQUIRES: there is one.
Scope ScopeNamed(const std::string& name);

}  // namespace kmirror::model
