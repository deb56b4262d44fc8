import { describe, expect, test } from 'vitest'
import { digestKey } from '../../src/domain/key/secret.ts'
import { startConsole } from '../support/console.ts'
import { readMessage } from '../support/messages.ts'
import { ScriptedAnnouncer } from '../support/scripted-announcer.ts'
import { NOW_MS } from '../support/stored-keys.ts'

const IMPORT = '/admin/v1/import'
const DAY_MS = 86_400_000
const inDays = (days: number) => new Date(NOW_MS + days * DAY_MS).toISOString()
const entryOf = (secret: string, more: object = {}) => ({
  digest: digestKey(secret),
  hint: `…${secret.slice(-4)}`,
  workspaceId: 'ws_1',
  name: 'importer',
  scopes: ['files:read'],
  expiresAt: inDays(30),
  ...more,
})

/** @param freshUrl the address of a database without rows */
export function describeKeyImport(database: string, freshUrl: () => Promise<string>): void {
  const started = async () => {
    const announcer = new ScriptedAnnouncer()
    const clock = { wallMs: () => NOW_MS, monotonicMs: () => performance.now() }
    const running = await startConsole({ databaseUrl: await freshUrl(), parts: { clock, announcer } })
    const { send } = running
    const importKeys = async (keys: readonly object[], secret?: string) => {
      const more = secret === undefined ? {} : { headers: { authorization: `Bearer ${secret}` } }
      return send('POST', IMPORT, { keys }, more)
    }
    const tokenFor = async (rights: object) => {
      const body = { name: 'migration', permissions: ['keys:write'], expiresInDays: 1, ...rights }
      return (await send('POST', '/admin/v1/tokens', body)).body
    }
    return { ...running, announcer, importKeys, tokenFor }
  }
  /** The parsed response: its type names only fields of other calls. */
  const outcomeOf = ({ text }: { readonly text: string }) => JSON.parse(text)
  const linesOf = (text: string) => text.split('\n').slice(0, -1)

  describe(`the import of keys in ${database}`, () => {
    test('creates a key for each digest, by the importer, with an audit entry, and announces it', async () => {
      const { send, importKeys, tokenFor, announcer } = await started()
      const { token, secret } = await tokenFor({ workspaces: ['ws_1'] })
      const keys = Array.from({ length: 1000 }, (_, index) => entryOf(`foreign-${index}`))
      const answer = await importKeys(keys, secret)
      expect(answer.status).toBe(200)
      expect(outcomeOf(answer)).toEqual({
        imported: 1000,
        results: keys.map(({ digest }) => ({ digest, status: 'imported' })),
      })
      const [newest] = (await send('GET', '/admin/v1/workspaces/ws_1/keys?limit=1')).body.keys
      expect(newest).toMatchObject({ hint: '…-999', state: 'active', createdBy: `token:${token.id}` })
      const { entries } = (await send('GET', '/admin/v1/audit?action=key.imported&limit=1')).body
      expect(entries[0]).toMatchObject({ keyId: newest?.id, actor: `token:${token.id}`, workspaceId: 'ws_1' })
      const announced = announcer.published.map(readMessage).flatMap(message => {
        return message?.kind === 'change' ? [message.digest] : []
      })
      expect(new Set(announced)).toEqual(new Set(keys.map(({ digest }) => digest)))
    })

    test('says which exist, also in another workspace, and changes nothing about them', async () => {
      const { send, importKeys } = await started()
      await importKeys([entryOf('foreign-1', { workspaceId: 'ws_2' })])
      const again = [entryOf('foreign-1', { name: 'other' }), entryOf('foreign-2'), entryOf('foreign-2')]
      const answer = await importKeys(again)
      expect(outcomeOf(answer)).toEqual({
        imported: 1,
        results: [
          { digest: again[0]?.digest, status: 'exists' },
          { digest: again[1]?.digest, status: 'imported' },
          { digest: again[2]?.digest, status: 'exists' },
        ],
      })
      expect(answer.text).not.toContain('ws_2')
      const [key] = (await send('GET', '/admin/v1/workspaces/ws_2/keys')).body.keys
      expect(key).toMatchObject({ name: 'importer', version: 1 })
    })

    test('two at once import each key once', async () => {
      const { send, importKeys } = await started()
      const keys = Array.from({ length: 100 }, (_, index) => entryOf(`foreign-${index}`))
      const answers = await Promise.all([importKeys(keys), importKeys(keys.toReversed())])
      const imported = answers.map(answer => outcomeOf(answer).imported)
      expect(imported.reduce((sum, count) => sum + count)).toBe(100)
      expect(linesOf((await send('GET', '/admin/v1/keys/export')).text)).toHaveLength(100)
      const { text } = await send('GET', '/admin/v1/audit?action=key.imported&limit=200')
      expect(outcomeOf({ text }).entries).toHaveLength(100)
    })

    test('refuses a workspace that the caller may not see alike, whether or not it has keys', async () => {
      const { importKeys, tokenFor } = await started()
      await importKeys([entryOf('foreign-1', { workspaceId: 'ws_2' })])
      const { secret } = await tokenFor({ workspaces: ['ws_1'] })
      const keys = ['ws_2', 'ws_3'].map(workspaceId => entryOf('foreign-1', { workspaceId }))
      const { results } = outcomeOf(await importKeys(keys, secret))
      const refused = { status: 'invalid', error: 'No such workspace', field: 'workspaceId' }
      expect(results).toEqual(keys.map(({ digest }) => ({ digest, ...refused })))
      const { secret: reader } = await tokenFor({ permissions: ['keys:read'] })
      expect((await importKeys(keys, reader)).status).toBe(403)
    })

    test('keeps revoked, suspended and expired keys as they are', async () => {
      const { send, importKeys } = await started()
      await importKeys([
        entryOf('a', { expiresAt: inDays(-400) }),
        entryOf('b', { revokedAt: inDays(-1) }),
        entryOf('c', { suspendedAt: inDays(-1) }),
      ])
      const { keys } = (await send('GET', '/admin/v1/workspaces/ws_1/keys')).body
      expect(keys.map(({ state }) => state)).toEqual(['suspended', 'revoked', 'expired'])
    })

    test('keeps a retiring key retiring, replaced by the imported one, also where that one exists', async () => {
      const one = await started()
      const { key: old } = (
        await one.send('POST', '/admin/v1/workspaces/ws_1/keys', { name: 'reports', scopes: ['files:read'] })
      ).body
      await one.send('POST', `/admin/v1/keys/${old.id}/rotate`, {})
      const lines = linesOf((await one.send('GET', '/admin/v1/keys/export')).text).map(line =>
        JSON.parse(line),
      )
      const keysOf = async ({ send }: typeof one) =>
        (await send('GET', '/admin/v1/workspaces/ws_1/keys')).body.keys
      const replaced = lines.filter(({ id }) => id === old.id)
      const fresh = lines.filter(({ id }) => id !== old.id)
      for (const calls of [[lines], [fresh, lines]]) {
        const other = await started()
        for (const keys of calls) await other.importKeys(keys)
        const keys = await keysOf(other)
        const successor = keys.find(({ state }) => state === 'active')
        const retiring = keys.find(({ state }) => state === 'retiring')
        expect(keys).toHaveLength(2)
        expect(retiring).toMatchObject({ hint: old.hint, replacedBy: successor?.id })
        expect((await other.send('POST', `/admin/v1/keys/${retiring?.id}/rotate`, {})).status).toBe(409)
      }
      // Without the one that replaces it, its id is that of the export.
      const alone = await started()
      await alone.importKeys(replaced)
      expect(await keysOf(alone)).toMatchObject([{ state: 'retiring', replacedBy: fresh[0].id }])
    })

    test('reads what an export wrote', async () => {
      const [one, other] = [await started(), await started()]
      const { body } = await one.send('POST', '/admin/v1/workspaces/ws_1/keys', {
        name: 'reports',
        scopes: ['files:read'],
        description: 'of the night',
        allowedCidrs: ['192.0.2.0/24'],
      })
      await one.send('POST', `/admin/v1/keys/${body.key.id}/rotate`, {})
      await one.importKeys([
        entryOf('a', { revokedAt: inDays(-1) }),
        entryOf('b', { suspendedAt: inDays(-1) }),
      ])
      const exported = async ({ send }: typeof one) =>
        linesOf((await send('GET', '/admin/v1/keys/export')).text).map(line => JSON.parse(line))
      const lines = await exported(one)
      expect(lines).toHaveLength(4)
      expect(outcomeOf(await other.importKeys(lines)).imported).toBe(4)
      const kept = (line: Record<string, unknown>) => {
        const { id, createdAt, createdBy, rotatedFrom, replacedBy, version, ...rest } = line
        return rest
      }
      expect((await exported(other)).map(kept)).toEqual(lines.map(kept))
    })

    const WRONG: readonly (readonly [
      what: string,
      wrong: object,
      field: string | undefined,
      error: RegExp,
    ])[] = [
      ['no digest', { digest: undefined }, 'digest', /^digest must be the SHA-256/],
      ['a hint that is the key', { hint: 'foreign-key' }, 'hint', /^hint must be/],
      ['a name that is the key', { name: 'foreign-key' }, 'name', /^name must be/],
      ['a hint that is too long', { hint: 'h'.repeat(65) }, 'hint', /^hint must be/],
      ['a path for a workspace', { workspaceId: '../ws' }, 'workspaceId', /^workspaceId must be/],
      ['an unknown scope', { scopes: ['files:write'] }, 'scopes', /^scopes must be/],
      ['no expiry', { expiresAt: null }, 'expiresAt', /^expiresAt must be/],
      ['an expiry in 367 days', { expiresAt: inDays(367) }, 'expiresAt', /at most 366 days from now$/],
      ['a revocation to come', { revokedAt: inDays(1) }, 'revokedAt', /not in the future$/],
      [
        'a replacement that is no key',
        { replacedBy: 'foreign-key' },
        'replacedBy',
        /null or the id of the key/,
      ],
      ['an unknown field', { colour: 'gold' }, undefined, /^An entry has only/],
    ]
    test('names what is wrong with an entry, and imports the others', async () => {
      const { importKeys } = await started()
      for (const [what, wrong, field, error] of WRONG) {
        const entry = { ...entryOf('foreign-key', wrong) }
        const answer = await importKeys([entry, entryOf(`good beside ${what}`)])
        const { imported, results } = outcomeOf(answer)
        expect([what, answer.status, imported, results[1].status]).toEqual([what, 200, 1, 'imported'])
        expect(results[0], what).toMatchObject({ status: 'invalid', error: expect.stringMatching(error) })
        expect(results[0].field, what).toBe(field)
        expect(answer.text, what).not.toContain('foreign-key')
      }
    })

    test('repeats and logs no key that was sent in place of a digest or workspace', async () => {
      const { send, importKeys, tokenFor, log } = await started()
      const { secret } = await tokenFor({ workspaces: ['ws_1'] })
      const answer = await importKeys(
        [entryOf('x', { digest: 'foreign-key' }), entryOf('y', { workspaceId: 'foreign key' })],
        secret,
      )
      expect(outcomeOf(answer).results[0].digest).toBeNull()
      const audit = await send('GET', '/admin/v1/audit')
      expect(answer.text + audit.text + JSON.stringify(log)).not.toMatch(/foreign.key/)
    })

    test('refuses a list of none, of over 1,000, or of other things', async () => {
      const { send } = await started()
      for (const keys of [[], Array.from({ length: 1001 }, () => ({})), [1]]) {
        expect((await send('POST', IMPORT, { keys })).status).toBe(400)
      }
    })
  })
}
