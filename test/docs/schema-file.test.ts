import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { SCHEMA_FILE, schemaFile } from './schema-file.ts'

it('the program checks the settings that src/config/schema.ts declares: npm run docs writes them down', () => {
  expect(readFileSync(SCHEMA_FILE, 'utf8')).toBe(schemaFile())
})
