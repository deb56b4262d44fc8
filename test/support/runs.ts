/** Set by vitest.config.ts. */
const IS_NIGHTLY = process.env['TEST_SUITE'] === 'qualify'

/** How much of a random or exhaustive test to run: enough to find a mistake in each run, far more in `npm run qualify`. */
export function runs<Amount>(each: Amount, nightly: Amount): Amount {
  return IS_NIGHTLY ? nightly : each
}
