/** 32 random bytes hold about 30 different ones. */
const MIN_DISTINCT_BYTES = 16
/** For text, which may consist of random digits. */
const MIN_DISTINCT_CHARACTERS = 6
/** One of these is enough: 32 random letters contain one with a probability below 10^-9. */
const PLACEHOLDER =
  /changeme|changethis|replaceme|replacethis|password|passphrase|placeholder|insecure|notasecret|yoursecret|mysecret|topsecret|secretkey|signingsecret|development|testsecret|demosecret/i
/** These must make up half of all letters. */
const WORDS =
  /secret|signing|postern|token|admin|test|example|sample|demo|dummy|fake|default|change|please|hunter|letmein|qwerty|prod|dev|key|the|your|for/gi

/**
 * Whether a secret is obviously not random: one byte or a short pattern repeated, a sequence, or words. It finds forgotten
 * placeholders, not bad intentions. Of random secrets it rejects fewer than 1 in 10^8 (32 decimal digits: 6 in 10^8).
 * @param secret base64, as it was written; the text itself may be a phrase, or hexadecimal digits
 */
export function isObviouslyWeak(secret: string): boolean {
  const readings = [Buffer.from(secret), Buffer.from(secret, 'base64')]
  return [...readings, ...readings.flatMap(decodeHexadecimal)].some(
    bytes => isSequence(bytes) || hasFewDistinct(bytes) || isMadeOfWords(bytes.toString('latin1')),
  )
}

function decodeHexadecimal(bytes: Buffer): Buffer[] {
  const text = bytes.toString('latin1')
  return /^(?:[0-9a-f]{2}){16,}$/i.test(text) ? [Buffer.from(text, 'hex')] : []
}

/**
 * Whether three quarters of the differences between neighbouring bytes repeat with some period: true of a repeated byte or
 * pattern, and of counting up or down, also with a few breaks.
 */
function isSequence(bytes: Uint8Array): boolean {
  const steps = bytes.slice(1).map((byte, index) => byte - (bytes[index] ?? 0))
  for (let period = 1; period <= bytes.length / 2; period++) {
    const compared = steps.slice(period)
    const same = compared.filter((step, index) => step === steps[index])
    if (same.length * 4 >= compared.length * 3) return true
  }
  return false
}

function hasFewDistinct(bytes: Buffer): boolean {
  const minimum = isText(bytes.toString('latin1')) ? MIN_DISTINCT_CHARACTERS : MIN_DISTINCT_BYTES
  return new Set(bytes).size < Math.min(minimum, bytes.length / 2)
}

function isMadeOfWords(text: string): boolean {
  const letters = text.replace(/[^A-Za-z]/g, '')
  if (PLACEHOLDER.test(letters)) return true
  if (!isText(text)) return false
  const known = [...letters.matchAll(WORDS)].reduce((sum, [word]) => sum + word.length, 0)
  return known * 2 >= letters.length && known > 8 ? true : isPhrase(text)
}

/** Four words or more, capitalised or not, separated by blanks or punctuation. */
function isPhrase(text: string): boolean {
  return /^[A-Z]?[a-z]+(?:[^A-Za-z0-9]+[A-Z]?[a-z]+){3,}[^A-Za-z0-9]*$/.test(text)
}

function isText(text: string): boolean {
  return /^[\x20-\x7e]+$/.test(text)
}
