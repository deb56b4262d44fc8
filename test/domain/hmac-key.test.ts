import { createHmac } from 'node:crypto'
import { inspect } from 'node:util'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { HmacKey } from '../../src/domain/hmac-key.ts'

const latin1Text = fc.uint8Array({ maxLength: 300 }).map(bytes => Buffer.from(bytes).toString('latin1'))

it('signs as HMAC-SHA-256 does, whatever the lengths of secret and texts, one text after another', () => {
  const secrets = fc.uint8Array({ maxLength: 200 })
  fc.assert(
    fc.property(secrets, fc.array(latin1Text, { maxLength: 6 }), (secret, texts) => {
      const key = new HmacKey(secret)
      for (const text of texts) {
        const expected = createHmac('sha256', secret).update(text, 'latin1').digest('binary')
        expect(key.sign(text)).toBe(expected)
      }
    }),
  )
})

it('signs two texts of two lengths in turns', () => {
  const key = new HmacKey(Buffer.alloc(32, 9))
  const [short, long] = ['a', 'b'.repeat(100)]
  const first = [key.sign(short), key.sign(long)]
  expect([key.sign(short), key.sign(long)]).toEqual(first)
})

it('shows nothing of the secret when it is printed', () => {
  const key = new HmacKey(Buffer.from('a-secret-of-32-bytes-in-plain-txt'))
  key.sign('text')
  expect(inspect(key, { showHidden: true }) + JSON.stringify(key)).toBe('HmacKey {}{}')
})
