// No bounds of the product: they end a test that hangs, also on a machine with ten times the work. A test that measures again
// while the machine starves programs takes up to five times as long.
export const TEST_LIMIT_MS = 300_000
export const HOOK_LIMIT_MS = 300_000
