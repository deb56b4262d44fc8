import { describe, expect, test } from 'vitest'
import type { PrepareReload } from '../../src/config/reloadable.ts'
import type { Config } from '../../src/config/schema/schema.ts'
import { importSigningSecret, mintSecret } from '../../src/domain/key/secret.ts'
import { createBearerKeyScheme } from '../../src/gateway/credentials.ts'

const SECRETS = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
const [first, second] = SECRETS.map(secret =>
  mintSecret('wsk_', Buffer.alloc(32, 3), importSigningSecret(secret)).reveal(),
)

function configWith(...secrets: readonly (Buffer | undefined)[]): Config {
  const signingSecrets = secrets.map(secret => secret?.toString('base64'))
  // The scheme reads only this part of a configuration.
  return { keys: { format: 'signed', prefix: 'wsk_', signingSecrets } } as unknown as Config
}

function startScheme(config: Config) {
  const prepared: PrepareReload<Config>[] = []
  const scheme = createBearerKeyScheme(
    config,
    prepare => void prepared.push(prepare),
    () => false,
  )
  const isAccepted = (key: string | undefined) => scheme.read({ authorization: [`Bearer ${key}`] }).ok
  return { isAccepted, prepare: (next: Config) => prepared.map(prepare => prepare(next)) }
}

describe('the MAC of a key that memory does not hold is checked with each request', () => {
  test('so that a reload without a signing secret makes its keys invalid, and no others', () => {
    const { isAccepted, prepare } = startScheme(configWith(...SECRETS))
    expect([first, second].map(isAccepted)).toEqual([true, true])
    const apply = prepare(configWith(SECRETS[1]))
    expect([first, second].map(isAccepted)).toEqual([true, true])
    for (const commit of apply) commit()
    expect([first, second].map(isAccepted)).toEqual([false, true])
  })

  test('and a reload with a new signing secret accepts its keys', () => {
    const { isAccepted, prepare } = startScheme(configWith(SECRETS[0]))
    expect([first, second].map(isAccepted)).toEqual([true, false])
    for (const commit of prepare(configWith(...SECRETS))) commit()
    expect([first, second].map(isAccepted)).toEqual([true, true])
  })
})
