module wirelab.dev/tools
