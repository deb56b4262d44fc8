import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { LONGEST } from '../support/longest-first.ts'

it('each file that is to begin first exists', () => {
  const missing = LONGEST.filter(
    name => !existsSync(fileURLToPath(new URL(`../${name}.test.ts`, import.meta.url))),
  )
  expect(missing).toEqual([])
})
