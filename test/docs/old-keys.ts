import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const sha256 = (key: string, encoding: 'hex' | 'base64') => createHash('sha256').update(key).digest(encoding)
const HOUR_MS = 3_600_000

/**
 * Files in the shape in which other systems export keys, for docs/migrate.md: two keys each, one of which has an expiry, is
 * inactive or cannot be imported.
 */
export function saveOldKeys(folder: string): void {
  mkdirSync(join(folder, 'tyk'), { recursive: true })
  const save = (name: string, content: unknown) =>
    writeFileSync(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content))
  saveKong(save)
  saveTyk(save)
  saveUnkey(save)
  const key = randomBytes(20).toString('hex')
  const other = randomBytes(20).toString('hex')
  save('a-key-of-your-own', key)
  save(
    'own-keys.tsv',
    `${sha256(key, 'hex')}\town_1\timporter\teditor\n${sha256(other, 'hex').toUpperCase()}\town_2\treports\treader\n`,
  )
}

type Save = (name: string, content: unknown) => void

/** As Kong's Admin API answers `GET /consumers` and `GET /key-auths`. */
function saveKong(save: Save): void {
  const consumers = [
    { id: '84a73fb8-50fc-44a7-a4d5-aa17728ee83f', username: 'importer', custom_id: 'kong_1', tags: null },
    { id: '5ae1c2f5-6ad5-4b7f-9b0e-0f2d3c1b8a11', username: 'kong_2', custom_id: null, tags: ['reports'] },
  ]
  const credentials = consumers.map(({ id }, index) => ({
    id: `b2f34145-0343-41a4-9602-4c69dec2f26${index}`,
    key: randomBytes(24).toString('base64url'),
    consumer: { id },
    created_at: 1_760_000_000,
    tags: null,
    ttl: index === 0 ? null : 7200,
  }))
  save('kong-consumers.json', { data: consumers, next: null })
  save('kong-key-auths.json', { data: credentials, next: null })
}

/** As Tyk's Gateway API describes sessions, each in a file that is named by the hash of its key. */
function saveTyk(save: Save): void {
  const session = (workspace: string, more: object) => ({
    alias: 'tyk importer',
    allowance: 1000,
    rate: 1000,
    per: 60,
    quota_max: -1,
    org_id: '5e9d9544a1dcd60001d0ed20',
    access_rights: { files: { api_id: 'files', api_name: 'Files', versions: ['Default'] } },
    expires: 0,
    is_inactive: false,
    meta_data: { workspace_id: workspace },
    ...more,
  })
  const token = (id: string) =>
    Buffer.from(JSON.stringify({ org: '5e9d9544a1dcd60001d0ed20', id, h: 'sha256' })).toString('base64')
  const [active, inactive] = [token(randomBytes(16).toString('hex')), token(randomBytes(16).toString('hex'))]
  save('a-key-of-tyk', active)
  save(`tyk/${sha256(active, 'hex')}.json`, session('tyk_1', {}))
  const soon = Math.floor((Date.now() + HOUR_MS) / 1000)
  save(`tyk/${sha256(inactive, 'hex')}.json`, session('tyk_2', { is_inactive: true, expires: soon }))
  save('tyk/9bd3a2c41f0e77d5.json', session('tyk_3', {}))
}

/** As `apis.listKeys` answers with `decrypt: true`, and as rows of the table `keys`. */
function saveUnkey(save: Save): void {
  const plaintext = `sk_${randomBytes(16).toString('hex')}`
  const stored = `sk_${randomBytes(16).toString('hex')}`
  const key = { start: plaintext.slice(0, 7), enabled: true, createdAt: 1_760_000_000_000 }
  save('unkey-keys.json', {
    meta: { requestId: 'req_1' },
    data: [
      {
        ...key,
        keyId: 'key_1',
        plaintext,
        identity: { id: 'id_1', externalId: 'unkey_1' },
        expires: Date.now() + HOUR_MS,
      },
      { ...key, keyId: 'key_2', identity: { id: 'id_2', externalId: 'unkey_2' } },
      {
        ...key,
        keyId: 'key_3',
        enabled: false,
        plaintext: 'sk_disabled',
        identity: { externalId: 'unkey_1' },
      },
    ],
    pagination: { hasMore: false },
  })
  save('a-key-of-unkey', stored)
  save('unkey-hashes.tsv', `${sha256(stored, 'base64')}\t${stored.slice(0, 7)}\tunkey_3\treports\t\n`)
}
