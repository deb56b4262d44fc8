import { writeFileSync } from 'node:fs'
import { SCHEMA_FILE, schemaFile } from './schema-file.ts'

writeFileSync(SCHEMA_FILE, schemaFile())
