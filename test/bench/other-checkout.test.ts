import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { otherCheckout } from './other-checkout.ts'
import { commit } from './results.ts'
import { CHECKOUT } from './world.ts'

let parent: string
beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'postern-other-'))
})
afterAll(() => rm(parent, { recursive: true, force: true }))

test('a commit to compare with is written out, with its packages', () => {
  const { directory, commit: hash } = otherCheckout('HEAD', parent)
  expect(hash).toBe(commit())
  expect(directory.startsWith(parent)).toBe(true)
  for (const file of ['src/main.ts', 'package.json', 'node_modules/fastify/package.json'])
    expect(existsSync(join(directory, file)), file).toBe(true)
})

test('a directory with a checkout is used as it is', () => {
  expect(otherCheckout(CHECKOUT, parent)).toEqual({ directory: resolve(CHECKOUT), commit: commit() })
})

test('what is neither is named', () => {
  expect(() => otherCheckout('v0.0.0', parent)).toThrow('v0.0.0 is neither a commit')
})
