import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeEach, expect, test } from 'vitest'
import { startArguments } from '../support/start-arguments.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))

let checkout: string
let cache: string
beforeEach(() => {
  checkout = temporaryDirectory()
  cache = join(checkout, 'node_modules/.cache')
  for (const place of ['src', 'config', 'package.json']) {
    cpSync(join(CHECKOUT, place), join(checkout, place), { recursive: true })
  }
  mkdirSync(join(checkout, 'node_modules'))
  for (const name of readdirSync(join(CHECKOUT, 'node_modules')).filter(name => !name.startsWith('.'))) {
    symlinkSync(join(CHECKOUT, 'node_modules', name), join(checkout, 'node_modules', name))
  }
})

function start(...words: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [...startArguments(checkout), ...words], {
    cwd: checkout,
    env: { PATH: process.env['PATH'] },
    encoding: 'utf8',
  })
  return { status, stdout, stderr }
}

function cached(): string[] {
  return readdirSync(cache, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name))
}

test('a start from sources caches compiled code, and an edited source is compiled again', () => {
  expect(start('gateway', '--help').stdout).toContain('the data plane')
  expect(cached().length).toBeGreaterThan(60)
  const program = join(checkout, 'src/cli/program/program.ts')
  writeFileSync(program, readFileSync(program, 'utf8').replace('the data plane', 'the other plane'))
  expect(start('gateway', '--help')).toMatchObject({
    status: 0,
    stdout: expect.stringContaining('the other plane'),
  })
})

test('damaged cache files change nothing', () => {
  const expected = start('--help')
  for (const file of cached()) writeFileSync(file, readFileSync(file).fill(0xa5, 40))
  expect(start('--help')).toEqual(expected)
  for (const file of cached()) writeFileSync(file, 'nonsense')
  expect(start('--help')).toEqual(expected)
})

test('if the cache cannot be written, the program starts without a message', () => {
  const expected = start('--help')
  rmSync(cache, { recursive: true })
  writeFileSync(cache, 'a file in its place')
  expect(start('--help')).toEqual(expected)
  expect(expected).toMatchObject({ status: 0, stderr: '' })
})
