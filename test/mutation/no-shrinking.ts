import fc from 'fast-check'

// A mutant is killed by the first example that fails: a smaller one takes seconds to find, and nothing reads it.
fc.configureGlobal({ endOnFailure: true })
