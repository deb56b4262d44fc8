/** Set by vitest.config.ts. */
const IS_FAST = process.env['TEST_SUITE'] === 'fast'

/** What `npm test` leaves out of a test that it runs, such as PostgreSQL. */
export function beyondFast<Item>(...items: readonly Item[]): readonly Item[] {
  return IS_FAST ? [] : items
}
