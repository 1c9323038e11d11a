/** The operator of a server whose state lies in a folder, on the real database and the real file. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Context, Effect, Layer } from "effect"
import { layerOperator } from "../../src/layers/App.ts"
import * as Migrations from "../../src/layers/Migrations.ts"
import * as NodeSecrets from "../../src/layers/NodeSecrets.ts"
import * as Sqlite from "../../src/layers/Sqlite.ts"
import { Operator } from "../../src/services/Operator.ts"

/** As a server that starts now has it, until the scope ends. */
export const openOperator = (folder: string) =>
  Effect.map(
    Layer.build(
      Layer.fresh(
        layerOperator(folder).pipe(
          Layer.provide(Migrations.layer),
          Layer.provide(NodeSecrets.layer),
          Layer.provide(Sqlite.layer(join(folder, "codespace.sqlite"))),
        ),
      ),
    ),
    (services) => Context.get(services, Operator),
  )

export const credentialIn = (folder: string): string => readFileSync(join(folder, "operator"), "utf8").trim()
