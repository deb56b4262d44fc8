import { expect, test } from 'vitest'
import type { PrepareReload } from '../../src/config/reloadable.ts'
import type { Config } from '../../src/config/schema.ts'
import { mintSecret } from '../../src/domain/secret.ts'
import { readCredential } from '../../src/gateway/credential.ts'
import { createKeyCheck } from '../../src/gateway/key-check.ts'
import { SIGNING_KEY } from '../domain/examples.ts'

const SECRET = SIGNING_KEY.export().toString('base64')
const OTHER_SECRET = Buffer.alloc(32, 2).toString('base64')

function configOf(...signingSecrets: string[]): Config {
  // All of a configuration that the key check reads.
  return { keys: { format: 'signed', prefix: 'wsk_', signingSecrets } } as unknown as Config
}

test('a removed signing secret ends the keys that it signed with the request after the reload, whatever memory holds', () => {
  const prepares: PrepareReload<Config>[] = []
  const check = createKeyCheck(configOf(SECRET), prepare => prepares.push(prepare))
  const key = mintSecret('wsk_', Buffer.alloc(32, 3), SIGNING_KEY).reveal()
  const kind = () => readCredential([`Bearer ${key}`], check.format).kind
  expect(kind()).toBe('key')
  const commits = prepares.map(prepare => prepare(configOf(OTHER_SECRET)))
  expect(kind()).toBe('key')
  for (const commit of commits) commit()
  expect(kind()).toBe('malformed')
})
