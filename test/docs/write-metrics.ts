import { readFileSync, writeFileSync } from 'node:fs'
import { OBSERVABILITY, withCurrentMetrics } from './metrics-table.ts'

writeFileSync(OBSERVABILITY, withCurrentMetrics(readFileSync(OBSERVABILITY, 'utf8')))
