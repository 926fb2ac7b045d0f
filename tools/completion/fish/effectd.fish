# fish completion for effectd. The program knows what fits; this only asks it.
function __effectd_words
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    for line in ($words[1] completion words -- $words[2..-1] "$typed" 2>/dev/null)
        if test "$line" = @files
            set -l option (string match -r '^--[^=]+=' -- "$typed")
            for path in (__fish_complete_path (string replace -- "$option" '' "$typed"))
                echo "$option$path"
            end
        else
            echo $line
        end
    end
end
complete -c effectd -f -a '(__effectd_words)'
