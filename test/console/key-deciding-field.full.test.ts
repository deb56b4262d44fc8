import { spawnSync } from 'node:child_process'
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

/**
 * What is written first for a new field of a key that people choose and that decides: its type, its place among what gateways store, and its
 * column.
 */
const FIELD: readonly (readonly [file: string, before: string, text: string])[] = [
  ['domain/key/key-fields.ts', '  readonly allowedCidrs: readonly string[]\n', '  readonly hours: string\n'],
  ['domain/key/key-record.ts', "  | 'allowedCidrs'\n", "  | 'hours'\n"],
  [
    'console/platform/database/tables.ts',
    '  readonly allowed_cidrs: string | null\n',
    '  readonly hours: string\n',
  ],
]

test('the compiler names the places where a new field of a key that decides is left out', {
  timeout: 600_000,
}, () => {
  const copy = temporaryDirectory()
  for (const part of ['src', 'package.json', 'tsconfig.json']) {
    cpSync(join(ROOT, part), join(copy, part), { recursive: true })
  }
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  writeFileSync(join(copy, 'tsconfig.src.json'), '{ "extends": "./tsconfig.json", "include": ["src"] }')
  for (const [file, before, text] of FIELD) {
    const path = join(copy, 'src', file)
    const source = readFileSync(path, 'utf8')
    if (!source.includes(before)) throw new Error(`${file} has no place before ${before}`)
    writeFileSync(path, source.replace(before, text + before))
  }
  const tsc = join(ROOT, 'node_modules/.bin/tsc')
  const { stdout } = spawnSync(tsc, ['-p', 'tsconfig.src.json', '--pretty', 'false'], {
    cwd: copy,
    encoding: 'utf8',
  })
  const named = [...stdout.matchAll(/^src\/([^(]+)\(.*error TS/gm)].map(([, file]) => file)
  expect([...new Set(named)].toSorted()).toEqual([
    'cli/options/key-fields.ts',
    'console/keys/key-form.ts',
    'console/platform/database/key-row.ts',
    'console/platform/http/fields.ts',
    'domain/key/key-fields.ts',
    'domain/wire.ts',
  ])
})
