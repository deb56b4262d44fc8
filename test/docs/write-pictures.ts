import { writeFileSync } from 'node:fs'
import { drawPictures } from './pictures.ts'

for (const { file, svg } of await drawPictures()) writeFileSync(file, svg)
