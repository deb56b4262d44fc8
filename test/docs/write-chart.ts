import { writeFileSync } from 'node:fs'
import { chartFiles } from './chart-files.ts'

for (const { file, make } of chartFiles) writeFileSync(file, make())
