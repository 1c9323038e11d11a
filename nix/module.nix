# NixOS: `codespace serve` as a service with a user and a state folder of its own.
packageOf:
{ config, lib, pkgs, ... }:

let
  cfg = config.services.codespace;
  file = (pkgs.formats.json { }).generate "codespace.json" (
    cfg.settings
    // {
      inherit (cfg) workspaces;
      http = { inherit (cfg) port; } // (cfg.settings.http or { });
    }
  );
  roots = lib.mapAttrsToList (_: workspace: workspace.root) cfg.workspaces;
in
{
  options.services.codespace = {
    enable = lib.mkEnableOption "CodeSpace, the execution layer for agent loops";

    package = lib.mkOption {
      type = lib.types.package;
      default = packageOf pkgs;
      defaultText = lib.literalExpression "codespace.packages.\${system}.default";
      description = "The package to run.";
    };

    port = lib.mkOption {
      type = lib.types.port;
      default = 8787;
      description = "Port on this machine's own address.";
    };

    user = lib.mkOption {
      type = lib.types.str;
      default = "codespace";
      description = "User that reads and writes the workspaces and runs their commands. `codespace` is made; another must exist.";
    };

    group = lib.mkOption {
      type = lib.types.str;
      default = "codespace";
      description = "Group of that user.";
    };

    workspaces = lib.mkOption {
      default = { };
      example = {
        app = {
          root = "/srv/app";
          profile = "workspace-write";
        };
      };
      description = "Folders to serve, by name. Every field of a workspace in the configuration file may stand here.";
      type = lib.types.attrsOf (
        lib.types.submodule {
          freeformType = (pkgs.formats.json { }).type;
          options.root = lib.mkOption {
            type = lib.types.str;
            description = "The folder; absolute. The service's user must be able to use it.";
          };
          options.profile = lib.mkOption {
            type = lib.types.str;
            default = "read-only";
            description = "`read-only`, `workspace-write`, or one of `settings.profiles`.";
          };
        }
      );
    };

    settings = lib.mkOption {
      type = (pkgs.formats.json { }).type;
      default = { };
      example = {
        profiles.careful = {
          extends = "workspace-write";
          network = "off";
        };
      };
      description = "The rest of the configuration file, as docs/configuration.md lists it.";
    };
  };

  config = lib.mkIf cfg.enable {
    users.users = lib.mkIf (cfg.user == "codespace") {
      codespace = {
        isSystemUser = true;
        inherit (cfg) group;
        home = "/var/lib/codespace";
      };
    };
    users.groups = lib.mkIf (cfg.group == "codespace") { codespace = { }; };

    systemd.services.codespace = {
      description = "CodeSpace";
      wantedBy = [ "multi-user.target" ];
      after = [ "network.target" ];
      # What commands find, beside what the package brings.
      path = [ pkgs.bash pkgs.coreutils pkgs.findutils pkgs.gnugrep pkgs.gnused ];
      environment = {
        HOME = "/var/lib/codespace";
        XDG_STATE_HOME = "/var/lib";
      };
      serviceConfig = {
        ExecStart = "${lib.getExe cfg.package} serve --config ${file}";
        User = cfg.user;
        Group = cfg.group;
        StateDirectory = "codespace";
        StateDirectoryMode = "0700";
        Restart = "on-failure";
        # The server ends its commands itself, within five seconds; what it could not end goes with its control group.
        KillMode = "mixed";
        TimeoutStopSec = 15;

        ProtectSystem = "strict";
        ProtectHome = "tmpfs";
        BindPaths = roots;
        PrivateTmp = true;
        NoNewPrivileges = true;
        CapabilityBoundingSet = "";
        LockPersonality = true;
        ProtectClock = true;
        ProtectKernelModules = true;
        RestrictRealtime = true;
        RestrictSUIDSGID = true;
        SystemCallArchitectures = "native";
        # Not RestrictNamespaces, ProtectKernelTunables, ProtectKernelLogs or ProtectProc: the kernel lets bubblewrap mount /proc in a
        # namespace only where nothing of it is hidden, and commands would run unconfined.
      };
    };
  };
}
