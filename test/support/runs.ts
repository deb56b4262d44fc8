/** Set by vitest.config.ts. */
const IS_FULL = process.env['TEST_SUITE'] === 'full'

/** How much of a random or exhaustive test to run: enough to find a mistake in `npm test`, far more in `npm run test:full`. */
export function runs<Amount>(fast: Amount, full: Amount): Amount {
  return IS_FULL ? full : fast
}
