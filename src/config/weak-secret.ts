import type { Config } from './schema.ts'

/** Fewer different bytes than this: of 32 random ones, or 32 random hexadecimal digits, one in ten millions at most. */
const LEAST_DIFFERENT = 8
/** Words of eight letters and more, as they stand in examples; no random text will hold one. */
const PLACEHOLDER =
  /changeme|changethis|replaceme|replacethis|password|passphrase|placeholder|insecure|notasecret|yoursecret|mysecret|topsecret|secretkey|signingsecret|development|testsecret|demosecret|postern/i

/** A token of fewer characters can be guessed. */
const LEAST_TOKEN_LENGTH = 16

/** @returns the names of settings that hold a secret which should not have reached production */
export function weakSecretsOf({
  keys,
  console,
  origin,
}: Pick<Config, 'keys' | 'console' | 'origin'>): string[] {
  const isShort = (token: string | undefined) => token !== undefined && token.length < LEAST_TOKEN_LENGTH
  return [
    ...(keys.signingSecrets.some(isObviouslyWeak) ? ['keys.signingSecrets'] : []),
    ...(isShort(console.adminToken) ? ['console.adminToken'] : []),
    ...(isShort(origin.token) ? ['origin.token'] : []),
  ]
}

/**
 * Whether a secret is obviously not random: one byte over and over, a short pattern repeated, a run such as 0, 1, 2…, or a
 * placeholder out of an example. A secret that passes may still be a bad one: this catches what people forget, and not
 * what they plan.
 * It is warned of and not refused: a gateway that will not start is no safer for those whose keys it has to check.
 * @param secret base64, as it was written; somebody may have taken a phrase that happens to be that
 */
export function isObviouslyWeak(secret: string): boolean {
  return [Buffer.from(secret), Buffer.from(secret, 'base64')].some(
    values =>
      isPattern(values) || isRun(values) || new Set(values).size < LEAST_DIFFERENT || isPlaceholder(values),
  )
}

/** The same again after so many bytes, to the end; also a secret of half the length that was doubled. */
function isPattern(values: Uint8Array): boolean {
  for (let period = 1; period <= values.length / 2; period++) {
    if (values.every((value, index) => index < period || value === values[index - period])) return true
  }
  return false
}

/** At least half of them are the one before, or next to it. */
function isRun(values: Uint8Array): boolean {
  const near = values.filter((value, index) => index > 0 && Math.abs(value - (values[index - 1] ?? 0)) <= 1)
  return near.length * 2 >= values.length
}

/** Words may be parted, `change-me`; whatever is no letter is left out. */
function isPlaceholder(values: Uint8Array): boolean {
  return PLACEHOLDER.test(
    Buffer.from(values)
      .toString('latin1')
      .replace(/[^A-Za-z]/g, ''),
  )
}
