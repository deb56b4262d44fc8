// No bounds of the product: they end a test that hangs, also on a machine with four times the work.
export const TEST_LIMIT_MS = 120_000
export const HOOK_LIMIT_MS = 180_000
