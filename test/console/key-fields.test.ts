import { expect, test } from 'vitest'
import { key as keySchema, RECORD_FIELDS } from '../../src/console/platform/http/fields.ts'
import { TEXT_NAMES } from '../../src/domain/key/key-texts.ts'
import { startConsole } from '../support/console.ts'

const KEYS = '/admin/v1/workspaces/ws_1/keys'
const sorted = (fields: object): string[] => Object.keys(fields).sort()

async function issued() {
  const running = await startConsole()
  const { key } = (await running.send('POST', KEYS, { name: 'CI', scopes: ['files:read'] })).body
  return { ...running, key }
}

test('a response has the fields of a key that the document describes, and no others', async () => {
  const { key } = await issued()
  expect(sorted(key)).toEqual(sorted(keySchema.properties))
})

/** An export is written as it is, without a schema that would leave out a field. */
test('an export has the fields that the document describes, and no others', async () => {
  const { send } = await issued()
  const line = JSON.parse((await send('GET', '/admin/v1/keys/export')).text) as object
  expect(sorted(line)).toEqual(sorted({ digest: null, ...RECORD_FIELDS }))
})

/** Field, column and option of the command line share it. */
test('the name of a text is one lower-case word', () => {
  expect(TEXT_NAMES.filter(name => !/^[a-z]+$/.test(name))).toEqual([])
})
