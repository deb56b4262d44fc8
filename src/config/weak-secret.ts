/** Fewer different bytes than this are no random bytes: 32 of them hold about 30. */
const LEAST_DIFFERENT_BYTES = 16
/** The same for text, which may be random digits. */
const LEAST_DIFFERENT_CHARACTERS = 6
/** One of these is enough: 32 random letters hold one with odds of less than 1 in 10^9. */
const PLACEHOLDER =
  /changeme|changethis|replaceme|replacethis|password|passphrase|placeholder|insecure|notasecret|yoursecret|mysecret|topsecret|secretkey|signingsecret|development|testsecret|demosecret/i
/** Of these it takes half of all letters. */
const WORDS =
  /secret|signing|postern|token|admin|test|example|sample|demo|dummy|fake|default|change|please|hunter|letmein|qwerty|prod|dev|key|the|your|for/gi

/**
 * Whether a secret is obviously not random: one byte over and over, a short pattern repeated, a sequence such as 0, 1, 2, or
 * words. It catches what people forget to replace, not what they plan.
 * Of random bytes, and of random letters, hexadecimal digits or base64 that were encoded once more, it refuses fewer than one
 * in 10^8 (`PLACEHOLDER` is the worst case); of 32 decimal digits 6 in 10^8, which have too few different: C(10,5) / 2^32.
 * @param secret base64, as it was written; the text itself may be the phrase, or hexadecimal digits
 */
export function isObviouslyWeak(secret: string): boolean {
  const readings = [Buffer.from(secret), Buffer.from(secret, 'base64')]
  return [...readings, ...readings.flatMap(hexadecimalIn)].some(
    bytes => isSequence(bytes) || hasFewDifferent(bytes) || isMadeOfWords(bytes.toString('latin1')),
  )
}

function hexadecimalIn(bytes: Buffer): Buffer[] {
  const text = bytes.toString('latin1')
  return /^(?:[0-9a-f]{2}){16,}$/i.test(text) ? [Buffer.from(text, 'hex')] : []
}

/**
 * Whether three quarters of the steps from each byte to the next are the step some places before: so are those of one byte
 * repeated, of a pattern repeated, of counting up or down, and of both with a break in them.
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

function hasFewDifferent(bytes: Buffer): boolean {
  const least = isText(bytes.toString('latin1')) ? LEAST_DIFFERENT_CHARACTERS : LEAST_DIFFERENT_BYTES
  return new Set(bytes).size < Math.min(least, bytes.length / 2)
}

function isMadeOfWords(text: string): boolean {
  const letters = text.replace(/[^A-Za-z]/g, '')
  if (PLACEHOLDER.test(letters)) return true
  if (!isText(text)) return false
  const known = [...letters.matchAll(WORDS)].reduce((sum, [word]) => sum + word.length, 0)
  return known * 2 >= letters.length && known > 8 ? true : isPhrase(text)
}

/** Four words or more, each in lower case but for its first letter, parted by blanks or punctuation. */
function isPhrase(text: string): boolean {
  return /^[A-Z]?[a-z]+(?:[^A-Za-z0-9]+[A-Z]?[a-z]+){3,}[^A-Za-z0-9]*$/.test(text)
}

function isText(text: string): boolean {
  return /^[\x20-\x7e]+$/.test(text)
}
