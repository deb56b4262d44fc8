import { writeFileSync } from 'node:fs'
import { DASHBOARDS, fileOf, textOf } from './dashboards.ts'

for (const dashboard of DASHBOARDS) writeFileSync(fileOf(dashboard), textOf(dashboard))
