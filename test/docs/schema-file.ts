import { configSchema } from '../../src/config/schema.ts'

export const SCHEMA_FILE = new URL('../../src/config/settings-schema.json', import.meta.url)

/** What the program reads of its own declaration of settings: the JSON Schema, without the library that made it. */
export function schemaFile(): string {
  return `${JSON.stringify(configSchema, null, 2)}\n`
}
