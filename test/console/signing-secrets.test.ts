import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { SettingError } from '../../src/domain/errors.ts'
import { signingSecret } from '../config/examples.ts'
import { consoleConfig, startConsole } from '../support/console.ts'
import { openDatabase } from '../support/open-database.ts'
import { databaseDirectory } from '../support/temporary-directory.ts'

const [A, B, C] = [signingSecret(1), signingSecret(2), signingSecret(3)]

/** A console with these signing secrets on one database, from start to start. */
function consoles(format: 'signed' | 'opaque' = 'signed') {
  const databaseUrl = `sqlite:${join(databaseDirectory(), 'postern.db')}`
  const config = consoleConfig({ databaseUrl })
  return {
    databaseUrl,
    start: (...signingSecrets: string[]) =>
      startConsole({ parts: { config: { ...config, keys: { ...config.keys, format, signingSecrets } } } }),
  }
}

async function issueKey({ send }: Awaited<ReturnType<typeof startConsole>>): Promise<string> {
  const { body } = await send('POST', '/admin/v1/workspaces/ws_1/keys', { name: 'n', scopes: ['files:read'] })
  return body.key.id
}

describe('a console whose secrets signed none of the keys', () => {
  test('does not start, and says what to do', async () => {
    const { start } = consoles()
    const first = await start(A)
    await issueKey(first)
    await first.stop()
    await expect(start(B)).rejects.toThrow(
      /^keys\.signingSecrets: 1 key of this database is in use.*Add the former secret at the end.*rotate-secrets\.md$/,
    )
    await expect(start(B)).rejects.toBeInstanceOf(SettingError)
    await (await start(B, A)).stop()
  })

  test('does not start either if those keys are revoked: it could not verify that they are', async () => {
    const { start } = consoles()
    const first = await start(A)
    await first.send('POST', `/admin/v1/keys/${await issueKey(first)}/revoke`)
    await first.stop()
    await expect(start(B)).rejects.toThrow(
      /^keys\.signingSecrets: 1 key of this database is in use or revoked/,
    )
  })

  test('starts if those keys are expired', async () => {
    const { databaseUrl, start } = consoles()
    const first = await start(A)
    await issueKey(first)
    await first.stop()
    const { writer, close } = await openDatabase(databaseUrl)
    await writer.updateTable('keys').set({ expires_at_ms: 1 }).execute()
    await close()
    await (await start(B)).stop()
  })

  test('starts if the form of keys is not checked', async () => {
    const { start } = consoles('opaque')
    const first = await start(A)
    await issueKey(first)
    await first.stop()
    await (await start(B)).stop()
  })
})

test('every step of a rotation starts, and the step back', async () => {
  const { start } = consoles()
  const first = await start(A)
  await issueKey(first)
  await first.stop()
  for (const secrets of [[A, B], [B, A], [A, B], [B, A], [B]]) await (await start(...secrets)).stop()
  await expect(start(C)).rejects.toThrow('keys.signingSecrets')
})

test('of a database that knows no secret yet, each of the present ones counts', async () => {
  const { databaseUrl, start } = consoles()
  const first = await start(A)
  await issueKey(first)
  await first.stop()
  const { writer, close } = await openDatabase(databaseUrl)
  await writer.deleteFrom('signing_secrets').execute()
  await close()
  await (await start(B, A)).stop()
  await (await start(A)).stop()
})

test('the database holds fingerprints, and nothing of the secrets', async () => {
  const { databaseUrl, start } = consoles()
  await (await start(A)).stop()
  const { reader, close } = await openDatabase(databaseUrl)
  const rows = await reader.selectFrom('signing_secrets').selectAll().execute()
  await close()
  expect(rows).toEqual([
    {
      fingerprint: expect.stringMatching(/^[0-9a-f]{16}$/),
      first_used_at_ms: expect.any(Number),
      signs_audit_at_ms: 0,
    },
  ])
  const { fingerprint } = rows[0] ?? { fingerprint: '' }
  expect(Buffer.from(A, 'base64').toString('hex')).not.toContain(fingerprint)
})
