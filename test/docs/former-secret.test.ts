import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../support/temporary-directory.ts'
import { has, JQ } from '../support/tools.ts'
import { shellBlocks } from './shell-blocks.ts'

const at = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString()
const works = { revokedAt: null, createdAt: '2026-01-02T00:00:00.000Z', expiresAt: at(1) }

const LISTS = {
  keys: [
    { ...works, id: 'key_1', name: 'active', state: 'active', workspaceId: 'ws_1' },
    { ...works, id: 'key_2', name: 'can be resumed', state: 'suspended', workspaceId: 'ws_2' },
    { ...works, id: 'key_3', name: 'revoked', state: 'revoked', workspaceId: 'ws_1', revokedAt: at(-1) },
    { ...works, id: 'key_4', name: 'expired', state: 'expired', workspaceId: 'ws_1', expiresAt: at(-1) },
    {
      ...works,
      id: 'key_5',
      name: 'signed by the new secret',
      state: 'active',
      workspaceId: 'ws_2',
      createdAt: '2027-03-01T00:00:00.000Z',
    },
  ],
  tokens: [
    { ...works, id: 'tok_1', name: 'deployment' },
    { ...works, id: 'tok_2', name: 'revoked token', revokedAt: at(-1) },
  ],
}

/** Answers the list commands as the command line does. Of one workspace it lists that one's keys. */
const POSTERN = `#!/bin/sh
case "$*" in
  "keys list --workspace ws_1 --json") echo '${JSON.stringify({ keys: LISTS.keys.filter(key => key.workspaceId === 'ws_1') })}' ;;
  "keys list --json") echo '${JSON.stringify({ keys: LISTS.keys })}' ;;
  "tokens list --json") echo '${JSON.stringify({ tokens: LISTS.tokens })}' ;;
esac
`

test.skipIf(!has(JQ))(
  'before a signing secret is removed, all keys and admin tokens that it signed and that can work are listed',
  () => {
    const block = shellBlocks('docs/operate/rotate-secrets.md').find(({ text }) => text.includes('--json'))
    const directory = temporaryDirectory()
    writeFileSync(join(directory, 'postern'), POSTERN, { mode: 0o755 })
    const env = { ...process.env, PATH: `${directory}:${process.env['PATH']}` }
    const output = execFileSync('bash', ['-euo', 'pipefail', '-c', block?.text ?? ''], {
      env,
      encoding: 'utf8',
    })
    expect(output.match(/^(?:key|tok)_\d$/gm)).toEqual(['key_1', 'key_2', 'tok_1'])
  },
)
